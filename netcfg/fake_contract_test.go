package netcfg

import "testing"

func TestFakeContract(t *testing.T) {
	for _, s := range append(nicScenarios, deviceScenarios...) {
		t.Run(s.name, func(t *testing.T) { s.run(t, newFake, true) })
	}
}
