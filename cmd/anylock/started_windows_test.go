package main

func inheritNoSignals() {}
