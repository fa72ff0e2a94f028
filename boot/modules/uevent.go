package modules

import (
	"bytes"
	"fmt"
	"strings"
)

// Rescan is the action of an Event that stands for events the kernel had to
// drop: look at everything again.
const Rescan = "rescan"

// Event is one kernel uevent (lib/kobject_uevent.c).
type Event struct {
	Action    string // add, remove, change, bind, ..., or Rescan
	DevPath   string // below /sys
	Subsystem string // net, block, pci, ...
	Modalias  string // empty if the device asks for no module
	DevName   string // node below /dev; empty if it has none
	Interface string // network interface; empty if it is none
}

// ParseEvent reads one datagram: "action@devpath", then NUL-separated KEY=value.
func ParseEvent(b []byte) (Event, error) {
	head, rest, _ := bytes.Cut(b, []byte{0})
	action, path, ok := strings.Cut(string(head), "@")
	if !ok || action == "" || !strings.HasPrefix(path, "/") {
		return Event{}, fmt.Errorf("parse uevent: no action@/path in %.40q", head)
	}
	e := Event{Action: action, DevPath: path}
	for _, kv := range strings.Split(string(rest), "\x00") {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case "SUBSYSTEM":
			e.Subsystem = value
		case "MODALIAS":
			e.Modalias = value
		case "DEVNAME":
			e.DevName = value
		case "INTERFACE":
			e.Interface = value
		}
	}
	return e, nil
}
