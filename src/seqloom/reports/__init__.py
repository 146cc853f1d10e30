"""From numbers to pictures: plots, tables and pages that anyone can open."""
