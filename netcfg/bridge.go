package netcfg

// bridgeAttr is an option of a bridge or of one of its ports: its sysfs name,
// its attribute and the bytes of that. All are numbers, and all change live:
// br_changelink (net/bridge/br_netlink.c) has no refusal but a range.
type bridgeAttr struct {
	name string
	attr uint16
	size int
}

// bridgeAttrs is in the order of writing: stp_state first, because the
// kernel checks a forward_delay against it (2 to 30 s with the protocol on, any
// time with it off). Times are in hundredths of a second.
var bridgeAttrs = []bridgeAttr{
	{"stp_state", 5, 4},     // IFLA_BR_STP_STATE
	{"forward_delay", 1, 4}, // IFLA_BR_FORWARD_DELAY
	{"hello_time", 2, 4},    // IFLA_BR_HELLO_TIME
	{"max_age", 3, 4},       // IFLA_BR_MAX_AGE
	{"ageing_time", 4, 4},   // IFLA_BR_AGEING_TIME
	{"priority", 6, 2},      // IFLA_BR_PRIORITY
}

// rootTimers are the options of which the kernel tells the root bridge's value
// (br_fill_info), so that on any other bridge its own cannot be compared.
var rootTimers = []string{"forward_delay", "hello_time", "max_age"}

// IFLA_BR_ROOT_ID and IFLA_BR_BRIDGE_ID.
const (
	bridgeRootID = 10
	bridgeID     = 11
)

var brportAttrs = []bridgeAttr{
	{"path_cost", 3, 4},       // IFLA_BRPORT_COST
	{"priority", 2, 2},        // IFLA_BRPORT_PRIORITY
	{"hairpin_mode", 4, 1},    // IFLA_BRPORT_MODE
	{"learning", 8, 1},        // IFLA_BRPORT_LEARNING
	{"neigh_suppress", 32, 1}, // IFLA_BRPORT_NEIGH_SUPPRESS
}

// kindBridgePort marks a setting as one of a bridge's port (Op.Kind).
const kindBridgePort deviceKind = "bridge port"

func attrNamed(options []bridgeAttr, name string) *bridgeAttr {
	for i := range options {
		if options[i].name == name {
			return &options[i]
		}
	}
	return nil
}

func attrOf(options []bridgeAttr, attr uint16) *bridgeAttr {
	for i := range options {
		if options[i].attr == attr {
			return &options[i]
		}
	}
	return nil
}
