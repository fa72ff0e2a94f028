package boot

import (
	"errors"
	"os"
	"strings"

	"reveille/boot/modules"
)

// keepers are modules that keep the kernel's last words for the next boot, and
// that no device asks for. Each has its sign that it is of use here: ramoops
// wants to be told of memory that nobody else uses, efi_pstore wants EFI.
var keepers = []struct {
	module string
	use    func(commandLine string) bool
}{
	{"ramoops", func(line string) bool { return strings.Contains(line, "ramoops.mem_") }},
	{"efi_pstore", func(string) bool { _, err := os.Stat("/sys/firmware/efi"); return err == nil }},
}

// loadKeepers gives the modules their parameters, and loads the keepers. init
// looks into pstore when the state partition is mounted, which is later.
func (n *Node) loadKeepers() {
	log := n.logger("modules")
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return // said when the settings were read
	}
	line := string(text)
	n.loader.SetCommandLine(line)
	for _, k := range keepers {
		if !k.use(line) {
			continue
		}
		err := n.loader.Load(k.module)
		if err != nil && !errors.Is(err, modules.ErrUnknown) { // the image may do without
			log.Warn(err.Error() + ", going on: a kernel panic leaves no trace")
		}
	}
}
