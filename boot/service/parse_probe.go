package service

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"reveille/netcfg"
)

// The defaults of probes. Kubernetes looks every ten seconds and believes three
// failures; a service that becomes ready is waited for by others, and one that
// may have lost its instances by the whole cluster, so these are asked sooner.
const (
	lookAlive   = 10 * time.Second
	lookReady   = time.Second
	lookLost    = time.Second
	oneLook     = 2 * time.Second
	defaultMost = 60 * time.Second
	failures    = 3
)

var probeKinds = []string{"exec", "tcp", "http", "notify", "identity"}

// readProbe reads `ready` and `alive`; nil when there is none.
func readProbe(v netcfg.Value, alive bool) *Probe {
	m := v.Mapping(netcfg.Keys{Known: probeKeys})
	if !isMapping(v) {
		return nil
	}
	p := &Probe{}
	kind := oneKind(v, m)
	switch at := m.Get(kind); kind {
	case "exec":
		p.Exec = readCommand(at)
	case "tcp":
		p.TCP = checked(at, checkAddress)
	case "http":
		p.HTTP = &HTTP{URL: checked(at, checkURL)}
	case "notify":
		if p.Notify = at.Bool(); !p.Notify && isText(at) {
			at.Invalid("wants true, or another probe in its place")
		}
	case "identity":
		m := at.Mapping(netcfg.Keys{Known: identityKeys})
		p.Identity = &Identity{List: checked(m.Require("list"), checkURL), Watch: checked(m.Get("watch"), checkURL)}
		if !alive {
			at.Invalid("belongs under alive: it says whether instances were lost")
		}
	}
	p.times(m, kind, alive)
	return p
}

// oneKind is the one kind of probe that the mapping has.
func oneKind(v netcfg.Value, m netcfg.Mapping) string {
	found := ""
	for _, kind := range probeKinds {
		switch at := m.Get(kind); {
		case !at.Set():
		case found == "":
			found = kind
		default:
			at.Invalid("is a second probe beside %s: one is used", found)
		}
	}
	if found == "" {
		v.Invalid("wants one of %s", strings.Join(probeKinds, ", "))
	}
	return found
}

func (p *Probe) times(m netcfg.Mapping, kind string, alive bool) {
	p.Interval, p.Timeout, p.Deadline = lookReady, oneLook, defaultMost
	if alive {
		p.Interval, p.Failures = lookAlive, failures
	}
	if kind == "identity" {
		p.Interval = lookLost
	}
	if v := m.Get("interval"); v.Set() {
		p.Interval = duration(v, 100*time.Millisecond, time.Hour)
		if kind == "notify" && !alive {
			v.Invalid("has no meaning here: the service tells when it is ready")
		}
	}
	if v := m.Get("timeout"); v.Set() {
		p.Timeout = duration(v, 10*time.Millisecond, 10*time.Minute)
		if kind == "notify" {
			v.Invalid("has no meaning here: the service is not asked")
		}
	}
	if v := m.Get("deadline"); v.Set() {
		p.Deadline = duration(v, time.Second, 24*time.Hour)
	}
	if v := m.Get("failures"); v.Set() {
		p.Failures = v.Int(1, 1000)
		if !alive {
			v.Invalid("belongs under alive; ready has a deadline")
		}
	}
	if d := m.Get("deadline"); d.Set() && p.Deadline > 0 && p.Deadline < p.Timeout && kind != "notify" {
		d.Invalid("is shorter than timeout: no look could end before it")
	}
}

// reaches refuses a probe that could not cross into a network namespace of the
// service's own: sd_notify's socket is of the machine's, and so are its name
// servers.
func (p *Probe) reaches(at netcfg.Value) {
	if p == nil {
		return
	}
	address := p.TCP
	switch {
	case p.Notify:
		at.Invalid("wants another probe than notify, which does not reach out of a network namespace of its own")
		return
	case p.HTTP != nil:
		_, address, _, _ = SplitURL(p.HTTP.URL) // was checked
	case p.Identity != nil:
		_, address, _, _ = SplitURL(p.Identity.List)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return // a socket with a path, or a program
	}
	if _, err := netip.ParseAddr(host); err != nil {
		at.Invalid("wants an address and not the name %s: there are no name servers in a network namespace of its own", host)
	}
}

func checkAddress(s string) error {
	host, port, err := net.SplitHostPort(s)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		return errors.New("wants host:port, like 127.0.0.1:2379 or [::1]:2379")
	}
	return nil
}

func checkURL(s string) error {
	_, _, _, err := SplitURL(s)
	return err
}

// SplitURL takes a probe's URL apart: network and address are for net.Dial,
// and target is the URL to ask for over that connection.
func SplitURL(s string) (network, address, target string, err error) {
	u, err := url.Parse(s)
	if err != nil || u.User != nil || u.Fragment != "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", "", "", errors.New("wants http://host:port/path or http+unix:///socket:/path")
	}
	switch u.Scheme {
	case "http":
		if u.Port() == "" {
			u.Host += ":80"
		}
		if err := checkAddress(u.Host); err != nil {
			return "", "", "", fmt.Errorf("its server %w", err)
		}
		return "tcp", u.Host, u.String(), nil
	case "http+unix":
		socket, path, ok := strings.Cut(u.EscapedPath(), ":")
		socket, bad := url.PathUnescape(socket)
		if !ok || bad != nil || u.Host != "" || checkPath(socket) != nil || !strings.HasPrefix(path, "/") {
			return "", "", "", errors.New("wants http+unix:///socket:/path, the socket's absolute path first")
		}
		if u.RawQuery != "" {
			path += "?" + u.RawQuery
		}
		return "unix", socket, "http://localhost" + path, nil
	case "https":
		return "", "", "", errors.New("wants plain http: a probe stays on the node")
	}
	return "", "", "", errors.New("wants http://host:port/path or http+unix:///socket:/path")
}
