"""The preflight stage: may this host run the plan?"""
