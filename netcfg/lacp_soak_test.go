//go:build guest && soak

package netcfg

import (
	"testing"
	"time"
)

func TestLACPPartnerSlow(t *testing.T) { lacpPartner(t, "slow", 0) }

// TestLACPPartnerLate has the other side begin with LACP long after us, as a
// switch that boots does.
func TestLACPPartnerLate(t *testing.T) { lacpPartner(t, "slow", 75*time.Second) }
