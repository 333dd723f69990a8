# The campaign: its plan, and what the store says is left of it.
from iosweep import dag
from iosweep.jobs import attempts
from iosweep.judge.verdict import NOT_REPORT, NOT_TABLES, code_digest

# Not by `configfile:`, which keeps no line numbers for errors and merges files and options into one.
CAMPAIGN = dag.or_exit(dag.read, workflow)
NAME, RESULTS, SITE = CAMPAIGN.results.name, CAMPAIGN.results, CAMPAIGN.site
IOSWEEP = dag.COMMAND
# The executor plugin takes it from there.
ATTEMPTS = attempts.current = attempts.Attempts(CAMPAIGN, lambda: dag.read(workflow))
CAMPAIGN.tell(workflow.output_settings.dryrun)
dag.hide_explained(logger)
