package proc

import "slices"

// Setup is what the launcher makes of itself before it becomes a program: all
// that confines a service. It is done there, step by step, because each step
// may wait for a disk or a kernel lock, and because an error of a step can then
// be told as text.
type Setup struct {
	Cgroup string `json:"cgroup,omitempty"` // folder of the cgroup that it enters first; exists
	// Root is the folder that becomes /. It gets a /proc, /sys, /dev, /run and
	// /tmp in a mount namespace of its own.
	Root       string   `json:"root,omitempty"`
	Folders    []Folder `json:"folders,omitempty"`    // of the machine's, that are in Root too
	Namespaces []string `json:"namespaces,omitempty"` // mount, pid, ipc, uts, net

	// Join is the pid of a process of Cgroup whose namespaces and root are
	// entered, in place of new ones; not its pid namespace, which only children
	// can enter.
	Join int `json:"join,omitempty"`

	User  string `json:"user,omitempty"`  // name or number, by Root's /etc/passwd; empty: root
	Group string `json:"group,omitempty"` // empty: the user's own

	Confined        bool   `json:"confined,omitempty"`     // Capabilities counts
	Capabilities    uint64 `json:"capabilities,omitempty"` // bit n: capability n (linux/capability.h)
	NoNewPrivileges bool   `json:"noNewPrivileges,omitempty"`

	Core       bool   `json:"core,omitempty"`       // its crashes are dumped
	CoreFilter uint32 `json:"coreFilter,omitempty"` // /proc/PID/coredump_filter (core(5)); 0: as it is
}

// Folder is a folder of the machine that a service has in its root. What is
// mounted inside Source by any who has it, the others see, if Source is a shared
// mount (mount_namespaces(7)).
type Folder struct {
	Source string `json:"source"`
	At     string `json:"at"` // absolute, in the root; made where it is not there
}

// CoreDir is where the cores of services are. For each incarnation whose core is
// wanted the agent puts a file NAME-INCARNATION.limit there, with the bytes that
// are kept; beside it, the dump becomes NAME-INCARNATION.core (init's handler of
// dumps), with an empty NAME-INCARNATION.cut if it was longer. All of it is
// memory, which the agent gives back after the bundle.
const CoreDir = "/run/reveille/cores"

func (s *Setup) has(namespace string) bool {
	return s != nil && slices.Contains(s.Namespaces, namespace)
}
