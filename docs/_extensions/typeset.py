"""Typeset the formulas of docstrings, which are written in Unicode for readers of the source."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿᵀᶜ", [*"0123456789+-()n", "\\top", "c"], strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True))
ACCENTS = {"\u0302": "\\hat", "\u0304": "\\bar", "\u0303": "\\tilde"}
SYMBOLS = {"½": "\\tfrac12 ", "¼": "\\tfrac14 ", "‖": "\\Vert ", "~": "\\sim ", "#": "\\#", "%": "\\%", "&": "\\&"}
OPERATORS = ["log", "exp", "cos", "sin", "arcsin", "arctan", "min", "max", "sup", "tanh"]
FUNCTIONS = ["rank", "trace", "erf", "erfc", "erfcx", "softmax", "normalised", "median", "Bin", "Cov", "diag"]
#: English words of two letters; other pairs are products of variables.
SHORT_WORDS = ["to", "at", "by", "of", "in", "if", "is", "as", "or", "be", "no", "on"]
WORD = f"(?:[A-Za-z]{{3,}}|{'|'.join(SHORT_WORDS)})(?:'s)?(?![\\w(])"
WORDS = re.compile(f" ?(?<!\\w){WORD}(?:[ -](?:{WORD}|a(?= )))* ?")
NAMES = re.compile(f"(?<![A-Za-z])(?:{'|'.join(OPERATORS + FUNCTIONS)})(?![A-Za-z])")
#: Spaces between parts of a line, except next to what joins two of them.
PARTS = re.compile("(?<!subject to)(?<!over)(?<!and)(?<!or)(?<!⟹) {3,}(?!subject to|over|and|or|⟹|≤)")
#: Length of a line, in characters, from which its parts stand in lines of their own.
LONG = 90


def latex(formula: str) -> str:
    """Return the LaTeX of a formula, or of several, one in each line.

    >>> print(latex("minimise ‖ζ‖₂   subject to   Σ_j ζ_j ≥ √d"))
    \\begin{aligned}
    & \\text{minimise }\\Vert ζ\\Vert _{2} \\quad \\text{subject to} \\quad \\textstyle\\sum _j ζ_j ≥ \\sqrt{d}
    \\end{aligned}
    """
    lines = [part for line in formula.split("\n") for part in (PARTS.split(line) if len(line) > LONG else [line])]
    body = " \\\\\n".join("& " + _line(line.strip()) for line in lines)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"


def _line(text: str) -> str:
    """Return the LaTeX of one line of a formula, in which finished commands are kept from later replacements."""
    kept: list[str] = []

    def keep(command: str) -> str:
        """Return a character of private use that stands for the command until the end."""
        kept.append(command)
        return chr(0xE000 + len(kept) - 1)

    text = re.sub(
        "(.)([\u0302-\u0304])", lambda m: keep(f"{{{ACCENTS[m[2]]}{{{m[1]}}}}}"), unicodedata.normalize("NFD", text)
    )
    for signs, mark in ((SUPERSCRIPTS, "^"), (SUBSCRIPTS, "_")):
        run = f"[{re.escape(''.join(signs))}]+"
        text = re.sub(run, lambda m, signs=signs, mark=mark: keep(f"{mark}{{{''.join(signs[c] for c in m[0])}}}"), text)
    text = re.sub(r"_(min|max)", lambda m: keep(f"_{{\\{m[1]}}}"), text)
    text = re.sub(r"\^(\w'+)", lambda m: keep(f"^{{{m[1]}}}"), text)
    text = re.sub(r"_([^\W_]{2,})", lambda m: keep(f"_{{{m[1]}}}"), text)
    text = re.sub(r"(?<![\w.})])1\(", lambda _: keep("\\mathbf{1}") + "(", text)
    text = re.sub(r"(?<=[A-Za-z])\*", lambda _: keep("^*"), text)
    text = re.sub("([ΣΠ])(?=[_ ])", lambda m: keep(f"\\textstyle\\{'sum' if m[1] == 'Σ' else 'prod'} "), text)
    text = re.sub(" {2,}", lambda _: keep(" \\quad "), text)
    text = NAMES.sub(lambda m: keep(f"\\{m[0]} " if m[0] in OPERATORS else f"\\operatorname{{{m[0]}}}"), text)
    text = WORDS.sub(lambda m: keep(f"\\text{{{m[0]}}}"), text)
    text = _roots(_braces(text, keep), keep)
    for symbol, command in SYMBOLS.items():
        text = text.replace(symbol, command)
    while any("\ue000" <= c <= "\uf8ff" for c in text):
        text = "".join(kept[ord(c) - 0xE000] if "\ue000" <= c <= "\uf8ff" else c for c in text)
    return text


def _braces(text: str, keep: Callable[[str], str]) -> str:
    """Escape the braces of sets, and keep those of sub- and superscripts."""
    result, opened = "", []
    for before, c in zip(" " + text, text, strict=False):
        if c == "{":
            opened.append(before not in "_^")
        if c in "{}" and (opened if c == "{" else opened[-1:]) and opened[-1]:
            result += keep("\\" + c)
        else:
            result += c
        if c == "}":
            opened.pop()
    return result


def _roots(text: str, keep: Callable[[str], str]) -> str:
    """Put the term after each root sign, a bracket or a symbol with its scripts, under the root."""
    while "√" in text:
        i = text.rindex("√")
        rest = text[i + 1 :]
        end = len(re.match(r"\d*", rest)[0]) or 1  # type: ignore[index]
        if rest[0] == "(":
            end = next(e for e in range(1, len(rest) + 1) if rest[:e].count("(") == rest[:e].count(")"))
        inner = rest[1 : end - 1] if rest[0] == "(" else rest[:end]
        text = text[:i] + keep(f"\\sqrt{{{inner}}}") + rest[end:]
    return text
