//go:build !faults

package pid1

import "reveille/boot/proc"

// A release has no fault hooks: tolerant is an init that forgives every crash.
func tolerant() bool { return false }

func faultAtStart() {}

func agentProgram(program string, _ uint64) string { return program }

// faults adds nothing.
func faults(ops map[string]proc.Handler) map[string]proc.Handler { return ops }

func strikeStop() {}
