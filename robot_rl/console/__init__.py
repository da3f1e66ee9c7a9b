"""The operator's page in the browser. It reads what the processes publish; without it nothing goes
otherwise.
"""
