"""The tables of a campaign: their columns, how they are written from the store, and how they are read.

| module | what it does |
|---|---|
| columns.py | the columns of the tables |
| make.py | store -> tables and campaign.json, with rows for what is missing |
| writer.py | rows -> the files of all tables |
| reader.py | tables and campaign.json -> rows; damage in them |
"""
