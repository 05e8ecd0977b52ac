"""Hosts: limits, waits, logins, answers, cookies."""
