//go:build !faults

package pid1

import "reveille/boot/proc"

// faults adds nothing: a release has no fault hooks.
func faults(ops map[string]proc.Handler) map[string]proc.Handler { return ops }

func strikeStop() {}
