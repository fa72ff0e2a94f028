package netcfg

import (
	"io/fs"
	"os"
	"strconv"
)

// readPredictable finds the names of hardware. /sys/class/net shows the network
// namespace in which /sys was mounted: what it says of a name counts only when
// it is of the same interface.
func readPredictable(links []LinkState) {
	sys := os.DirFS("/sys")
	for i := range links {
		l := &links[i]
		if l.Kind != "" || l.Name == "lo" {
			continue
		}
		index, err := fs.ReadFile(sys, "class/net/"+l.Name+"/ifindex")
		if err != nil || string(index) != strconv.Itoa(l.Index)+"\n" {
			continue
		}
		l.Predictable = predictableNames(sys, l.Name, l.permanentMAC())
	}
}
