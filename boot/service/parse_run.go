package service

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reveille/netcfg"
)

const (
	// What the kernel takes of one argument: MAX_ARG_STRLEN, 32 pages
	// (include/uapi/linux/binfmts.h).
	maxArgument = 32*4096 - 1
	// A service that has not ended in ten seconds after it was asked to is one
	// that will not; Kubernetes waits 30, systemd 90, and operators with them.
	defaultStop = 10 * time.Second
	// Least memory: a Go program takes 4 MiB, a static C program 0.2 MiB.
	// What is below is a unit forgotten.
	minMemory = 64 << 10
	// pids.max may not exceed PID_MAX_LIMIT (include/linux/threads.h).
	maxPIDs = 4 << 20
	// maxCPU is the greatest NR_CPUS of the architectures (arch/x86/Kconfig).
	maxCPU = 8192
)

func readCommand(v netcfg.Value) []string {
	var out []string
	for i, item := range v.Sequence() {
		out = append(out, checked(item, func(s string) error {
			if i == 0 {
				return checkPath(s)
			}
			return checkArgument(s)
		}))
	}
	if len(out) == 0 && isList(v) {
		v.Invalid("wants a program's path and its arguments")
	}
	return out
}

func readEnv(v netcfg.Value) []string {
	var out []string
	for _, e := range v.Names().Entries() {
		if e.Key == "" || strings.ContainsAny(e.Key, "=\x00") {
			e.Value.Invalid("is no name of a variable: it may not be empty or have a =")
		}
		out = append(out, e.Key+"="+checked(e.Value, checkArgument))
	}
	return out
}

func readLimits(v netcfg.Value) Limits {
	m := v.Mapping(netcfg.Keys{Known: limitKeys})
	l := Limits{Memory: size(m.Get("memory"), minMemory), CPU: cores(m.Get("cpu"))}
	if v := m.Get("pids"); v.Set() {
		l.PIDs = uint32(v.Int(1, maxPIDs))
	}
	return l
}

// cores is a number of processors as Kubernetes writes it, 0.5 or 500m, or as
// systemd does, 50%.
func cores(v netcfg.Value) float64 {
	s := v.Scalar()
	if !isText(v) {
		return 0
	}
	digits, unit := s, 1.0
	if d, ok := strings.CutSuffix(s, "m"); ok {
		digits, unit = d, 1000
	} else if d, ok := strings.CutSuffix(s, "%"); ok {
		digits, unit = d, 100
	}
	n, err := strconv.ParseFloat(digits, 64)
	if n /= unit; err != nil || !(n >= 0.01 && n <= maxCPU) || strings.ContainsAny(digits, "xXpP_") {
		v.Invalid("wants a number of processors from 0.01, like 0.5, 500m or 50%%")
		return 0
	}
	return n
}

func readCapabilities(v netcfg.Value) *[]string {
	if !v.Set() {
		return nil
	}
	out := []string{}
	first := map[string]int{}
	for _, item := range v.Sequence() {
		s := item.Scalar()
		if !isText(item) {
			continue
		}
		name := "CAP_" + strings.TrimPrefix(s, "CAP_")
		if _, ok := Capability(name); !ok {
			item.Invalid("is no capability that Linux has%s", netcfg.Suggest(name, capabilities))
			continue
		}
		if line, twice := first[name]; twice {
			item.Invalid("is given twice, first in line %d", line)
		}
		first[name] = item.Line()
		out = append(out, name)
	}
	return &out
}

// namespaces in the order in which docs name them.
var namespaces = []string{"mount", "pid", "ipc", "uts", "net"}

func readNamespaces(v netcfg.Value) []string {
	return uniqueTexts(v, func(s string) error {
		if slices.Contains(namespaces, s) {
			return nil
		}
		return fmt.Errorf("wants one of %s%s", strings.Join(namespaces, ", "), netcfg.Suggest(s, namespaces))
	})
}

func readStop(v netcfg.Value) Stop {
	s := Stop{Signal: syscall.SIGTERM, Timeout: defaultStop}
	m := v.Mapping(netcfg.Keys{Known: stopKeys})
	checked(m.Get("signal"), func(name string) error {
		s.Signal = unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
		if s.Signal == 0 {
			return errors.New("is no signal's name; TERM, INT, QUIT, HUP, USR1 and so on are")
		}
		return nil
	})
	if v := m.Get("timeout"); v.Set() {
		s.Timeout = duration(v, 0, time.Hour)
	}
	return s
}

var policies = []string{string(OnFailure), string(Never), string(Always)}

// readPolicy: who has an identity probe has said that its state dies with it.
func readPolicy(v netcfg.Value, alive *Probe) Policy {
	identity := alive != nil && alive.Identity != nil
	if !v.Set() {
		if identity {
			return Never
		}
		return OnFailure
	}
	p := Policy(v.Enum(policies...))
	if identity && p != "" && p != Never {
		v.Invalid("wants never beside an identity probe: a fresh process would answer for instances that are gone")
	}
	return p
}

func readLogs(v netcfg.Value) Logs {
	m := v.Mapping(netcfg.Keys{Known: logKeys})
	l := Logs{Rate: size(m.Get("rate"), 1), Burst: size(m.Get("burst"), 1)}
	if b := m.Get("burst"); b.Set() && !m.Get("rate").Set() {
		b.Invalid("wants rate beside it")
	}
	return l
}

// maxCoreLimit is what a bundle's core may take, before it is packed, of the
// node's memory and of the controllers' store.
const maxCoreLimit = 1 << 30

func readCore(v netcfg.Value) Core {
	m := v.Mapping(netcfg.Keys{Known: coreKeys})
	c := Core{}
	if v := m.Get("limit"); v.Set() {
		if c.Limit = size(v, 0); c.Limit > maxCoreLimit {
			v.Invalid("is more than 1Gi")
		}
	}
	checked(m.Get("filter"), func(s string) error {
		n, err := strconv.ParseUint(s, 0, 32)
		if err != nil || n == 0 || n > 0x1ff {
			return errors.New("wants the bits of core(5), 0x01 to 0x1ff")
		}
		c.Filter = uint32(n)
		return nil
	})
	return c
}

func checkArgument(s string) error {
	if len(s) > maxArgument {
		return fmt.Errorf("is %d bytes long, Linux takes %d", len(s), maxArgument)
	}
	if strings.ContainsRune(s, 0) {
		return errors.New("has a byte 0, which ends a text for Linux")
	}
	return nil
}

// checkPath wants a path as nothing but its own spelling.
func checkPath(s string) error {
	switch {
	case !strings.HasPrefix(s, "/"):
		return errors.New("wants an absolute path")
	case path.Clean(s) != s:
		return fmt.Errorf("wants the path without detours: %s", path.Clean(s))
	case len(s) >= unix.PathMax:
		return fmt.Errorf("is %d bytes long, Linux takes %d", len(s), unix.PathMax-1)
	}
	return checkArgument(s)
}

// checkPlace is checkPath for what is to be made there.
func checkPlace(s string) error {
	if err := checkPath(s); err != nil {
		return err
	}
	if s == "/" {
		return errors.New("wants a path below /")
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if s == kernel || strings.HasPrefix(s, kernel+"/") {
			return fmt.Errorf("lies in %s, which is the kernel's", kernel)
		}
	}
	return nil
}

func checkDigest(s string) error {
	hex, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return errors.New("wants sha256: and 64 hex digits in lower case")
	}
	return nil
}

// checkUser wants what useradd(8) takes, or a number; whether there is such a
// user is for the payload's /etc/passwd to say, at each start.
func checkUser(s string) error {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		if n == 1<<32-1 {
			return errors.New("is the number that means nobody to the kernel (-1)")
		}
		return nil
	}
	ok := s != "" && len(s) <= 32
	for i, c := range []byte(strings.TrimSuffix(s, "$")) {
		letter := c >= 'a' && c <= 'z' || c == '_'
		ok = ok && (letter || i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '.'))
	}
	if !ok {
		return errors.New("wants the name of a user or group, or a number")
	}
	return nil
}

// checkName wants a DNS label, as the cgroup's, the log's and the table's name.
func checkName(name string, v netcfg.Value) bool {
	ok := name != "" && len(name) <= 63 && name[0] != '-' && name[len(name)-1] != '-'
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	switch {
	case !ok:
		v.Invalid("wants a name of a-z, 0-9 and inner hyphens, at most 63 bytes")
	case name == "agent" || name == "init":
		v.Invalid("is a name of ours")
		ok = false
	}
	return ok
}
