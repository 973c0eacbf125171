"""Does descent end at the margin problem's solution?"""
