"""The phases of one look at a pull request; `mergedog.phases.order` has them in order."""
