package service

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"reveille/netcfg"
)

// The keys of a document, section by section. docs/services.md says what each
// does, and TestKeysAreDocumented holds it to these lists.
var (
	topKeys     = []string{"version", "services", "payloads", "secrets"}
	serviceKeys = []string{"command", "environment", "user", "group", "directory", "payload", "limits",
		"capabilities", "no-new-privileges", "namespaces", "terminal", "files", "folders", "needs",
		"restart", "stop", "ready", "alive", "logs", "core"}
	limitKeys    = []string{"memory", "cpu", "pids"}
	fileKeys     = []string{"content", "mode", "user"}
	stopKeys     = []string{"signal", "timeout"}
	probeKeys    = []string{"exec", "tcp", "http", "notify", "identity", "interval", "timeout", "deadline", "failures"}
	identityKeys = []string{"list", "watch"}
	logKeys      = []string{"rate", "burst"}
	coreKeys     = []string{"limit", "filter"}
	payloadKeys  = []string{"source", "digest"}
)

// maxServices is far above what a node runs, and what its supervisor was
// measured with.
const maxServices = 1000

// Elsewhere is what is known of the services that another document of the same
// node defines: this one may need them, and may not define them again.
type Elsewhere struct {
	Services []string
	More     bool // there are some that are not listed
}

// Parse checks the cluster's desired configuration of a node; file is its name
// in the problems. The error is a netcfg.Problems with everything that is
// wrong, in document order.
func Parse(file string, text []byte, generation uint64, other Elsewhere) (Definitions, error) {
	doc := netcfg.ReadDocument(file, text)
	root := doc.Root()
	m := root.Mapping(netcfg.Keys{Known: topKeys})
	if v := m.Require("version"); isText(v) && v.Scalar() != "1" {
		v.Invalid("wants 1, the only version so far")
	}
	d := Read(m, generation, other)
	if err := doc.Err(); err != nil {
		return Definitions{}, err
	}
	return d, nil
}

// Read reads the keys `services`, `payloads` and `secrets` of a document, whose
// problems its owner collects: it is node.yaml's part of Parse.
func Read(m netcfg.Mapping, generation uint64, other Elsewhere) Definitions {
	var d Definitions
	d.Secrets = readSecrets(m.Get("secrets"))
	d.Payloads = readPayloads(m.Get("payloads"))
	services := m.Get("services")
	entries := services.Names().Entries()
	if len(entries) > maxServices {
		services.Invalid("has %d entries, at most %d are run", len(entries), maxServices)
		return d
	}
	needs := map[string]netcfg.Value{}
	for _, e := range entries {
		r := reader{Service: Service{Name: e.Key, Generation: generation}, defined: &d}
		if slices.Contains(other.Services, e.Key) {
			e.Value.Invalid("is defined by the node's own node.yaml")
		}
		if checkName(e.Key, e.Value) {
			needs[e.Key] = r.read(e.Value)
		}
		d.Services = append(d.Services, r.Service)
	}
	checkNeeds(d.Services, needs, other)
	for i := range d.Services {
		d.Services[i].Digest = digest(d.Services[i], &d)
	}
	return d
}

// reader reads one definition.
type reader struct {
	Service
	defined *Definitions // payloads and secrets, which come first
}

// read returns the place of the needs, which are checked when all are known.
func (r *reader) read(v netcfg.Value) (needs netcfg.Value) {
	m := v.Mapping(netcfg.Keys{Known: serviceKeys})
	if !isMapping(v) {
		return m.Get("needs")
	}
	r.Command = readCommand(m.Require("command"))
	r.Env = readEnv(m.Get("environment"))
	r.User = checked(m.Get("user"), checkUser)
	r.Group = checked(m.Get("group"), checkUser)
	r.Dir = checked(m.Get("directory"), checkPath)
	r.readPayload(m.Get("payload"))
	r.Limits = readLimits(m.Get("limits"))
	r.Capabilities = readCapabilities(m.Get("capabilities"))
	r.NoNewPrivileges = m.Get("no-new-privileges").Bool()
	r.Namespaces = readNamespaces(m.Get("namespaces"))
	r.Terminal = m.Get("terminal").Bool()
	r.Folders = uniqueTexts(m.Get("folders"), checkPlace)
	r.readFiles(m.Get("files"))
	r.Needs = uniqueTexts(m.Get("needs"), nil)
	r.Stop = readStop(m.Get("stop"))
	r.Ready = readProbe(m.Get("ready"), false)
	r.Alive = readProbe(m.Get("alive"), true)
	if slices.Contains(r.Namespaces, "net") {
		r.Ready.reaches(m.Get("ready"))
		r.Alive.reaches(m.Get("alive"))
	}
	r.Restart = readPolicy(m.Get("restart"), r.Alive)
	r.Logs = readLogs(m.Get("logs"))
	r.Core = readCore(m.Get("core"))
	return m.Get("needs")
}

func (r *reader) readPayload(v netcfg.Value) {
	r.Payload = checked(v, func(s string) error {
		if _, ok := r.defined.Payload(s); ok {
			return nil
		}
		var names []string
		for _, p := range r.defined.Payloads {
			names = append(names, p.Name)
		}
		return fmt.Errorf("is not defined under payloads%s", netcfg.Suggest(s, names))
	})
}

// hiddenBy is the folder that would hide a file of the payload's root.
func (r *reader) hiddenBy(file string) string {
	if r.Payload == "" {
		return ""
	}
	for _, dir := range slices.Concat([]string{"/run", "/tmp"}, r.Folders) {
		if strings.HasPrefix(file, dir+"/") || file == dir {
			return dir
		}
	}
	return ""
}

func (r *reader) readFiles(v netcfg.Value) {
	for _, e := range v.Names().Entries() {
		f := File{Path: e.Key, Mode: 0o644}
		if err := checkPlace(e.Key); err != nil {
			e.Value.Invalid("%v", err)
		} else if in := r.hiddenBy(e.Key); in != "" {
			e.Value.Invalid("lies in %s, which is mounted over the payload's files", in)
		}
		m := e.Value.Mapping(netcfg.Keys{Known: fileKeys})
		f.Content = checked(m.Require("content"), func(s string) error {
			return checkTemplate(s, r.defined.Secrets)
		})
		checked(m.Get("mode"), func(s string) error {
			mode, err := strconv.ParseUint(s, 8, 32)
			if err != nil || mode > 0o777 || len(s) < 3 {
				return errors.New("wants permissions as chmod does, like 0600")
			}
			f.Mode = uint32(mode)
			return nil
		})
		f.User = checked(m.Get("user"), checkUser)
		r.Files = append(r.Files, f)
	}
}

func readPayloads(v netcfg.Value) []Payload {
	var out []Payload
	for _, e := range v.Names().Entries() {
		p := Payload{Name: e.Key}
		if checkName(e.Key, e.Value) {
			m := e.Value.Mapping(netcfg.Keys{Known: payloadKeys})
			p.Source = checked(m.Require("source"), checkPath)
			p.Digest = checked(m.Require("digest"), checkDigest)
		}
		out = append(out, p)
	}
	return out
}

func readSecrets(v netcfg.Value) Secrets {
	var out Secrets
	for _, e := range v.Names().Entries() {
		if checkName(e.Key, e.Value) {
			out = append(out, NewSecret(e.Key, e.Value.Scalar()))
		}
	}
	return out
}

// checked is the text of v if check finds nothing wrong with it.
func checked(v netcfg.Value, check func(string) error) string {
	s := v.Scalar()
	if !isText(v) { // absent, or reported by Scalar
		return ""
	}
	if err := check(s); err != nil {
		v.Invalid("%v", err)
		return ""
	}
	return s
}

// uniqueTexts is a list in which nothing may be given twice; check may be nil.
func uniqueTexts(v netcfg.Value, check func(string) error) []string {
	var out []string
	first := map[string]int{}
	for _, item := range v.Sequence() {
		s := item.Scalar()
		if !isText(item) {
			continue
		}
		if line, twice := first[s]; twice {
			item.Invalid("is given twice, first in line %d", line)
			continue
		}
		first[s] = item.Line()
		if check != nil {
			if err := check(s); err != nil {
				item.Invalid("%v", err)
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

func isText(v netcfg.Value) bool {
	n := v.Node()
	return n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null"
}

func isList(v netcfg.Value) bool {
	n := v.Node()
	return n != nil && n.Kind == yaml.SequenceNode
}

func isMapping(v netcfg.Value) bool {
	n := v.Node()
	return n != nil && n.Kind == yaml.MappingNode
}
