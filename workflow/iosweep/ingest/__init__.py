"""Outputs that others made.

| module | what it does |
|---|---|
| outputs.py | which tool wrote a file, told by its content; IO500 directories |
| foreign_campaign.py | rows and points of these files, as a campaign with tables |
"""
