"""The generator: reads the contract and writes everything that must agree with it. At run time nothing imports it."""
