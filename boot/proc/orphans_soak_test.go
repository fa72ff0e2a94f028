//go:build soak

package proc

import "testing"

func TestHundredThousandOrphans(t *testing.T) { orphanStorm(t, 100_000) }
