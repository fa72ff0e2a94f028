package netcfg

import (
	"strings"
)

// resolvConf is the text of resolv.conf(5).
func (d dns) resolvConf() string {
	var b strings.Builder
	b.WriteString("# Written by reveille from its network document; other changes are lost.\n")
	if len(d.search) > 0 {
		b.WriteString("search " + strings.Join(d.search, " ") + "\n")
	}
	for _, s := range d.servers {
		b.WriteString("nameserver " + s.String() + "\n")
	}
	return b.String()
}
