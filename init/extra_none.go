//go:build !faults

package main

// extra knows nothing: a release has no fault hooks.
func extra([]string) bool { return false }
