"""The ground floor's vocabulary: dtypes, devices, promotion and operator schemas.

Nothing here knows an array library. A backend maps these names to its own dtypes and device handles.
"""
