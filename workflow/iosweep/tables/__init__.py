"""The tables of a campaign: their columns, writing them from the store, and reading them.

| module | what it does |
|---|---|
| columns.py | columns of all tables, with types and meanings |
| make.py | store -> tables and campaign.json, with rows for missing repetitions |
| writer.py | rows -> the files of all tables |
| reader.py | tables and campaign.json -> rows; detects damaged tables |
"""
