//go:build faults

package params

// faults says whether this build has fault hooks for tests.
const faults = true
