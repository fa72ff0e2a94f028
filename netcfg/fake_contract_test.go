package netcfg

import (
	"slices"
	"testing"
)

func TestFakeContract(t *testing.T) {
	for _, s := range slices.Concat(nicScenarios, policyScenarios, deviceScenarios, bridgeScenarios) {
		t.Run(s.name, func(t *testing.T) { s.run(t, newFake, always) })
	}
}
