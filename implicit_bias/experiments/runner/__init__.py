"""What all experiments share: cells as jobs, a store, engines, tables and pages."""
