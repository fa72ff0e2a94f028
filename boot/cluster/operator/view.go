package operator

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
)

// Node is a node in JSON and YAML. The field names are stable: fields are
// added, never renamed or removed. Lists are never null; times are RFC 3339 in
// UTC, null when the thing has not happened.
type Node struct {
	Name             string     `json:"name" yaml:"name"`
	State            string     `json:"state" yaml:"state"` // pending, joined, lost, removed
	Stage            string     `json:"stage" yaml:"stage"`
	Reason           string     `json:"reason" yaml:"reason"` // what it waits for, or what is wrong
	Sealed           bool       `json:"sealed" yaml:"sealed"`
	Binding          string     `json:"binding" yaml:"binding"` // what the seal is bound to
	TPM              string     `json:"tpm" yaml:"tpm"`         // required, disabled
	BootID           string     `json:"bootId" yaml:"bootId"`
	BuildID          string     `json:"buildId" yaml:"buildId"`
	Boots            uint32     `json:"boots" yaml:"boots"` // that joined
	Addresses        []string   `json:"addresses" yaml:"addresses"`
	APIAddresses     []string   `json:"apiAddresses" yaml:"apiAddresses"`
	Enrolled         *time.Time `json:"enrolled" yaml:"enrolled"`
	Joined           *time.Time `json:"joined" yaml:"joined"` // this boot
	LastSeen         *time.Time `json:"lastSeen" yaml:"lastSeen"`
	UptimeSeconds    float64    `json:"uptimeSeconds" yaml:"uptimeSeconds"`
	AgentCrashes     uint32     `json:"agentCrashes" yaml:"agentCrashes"` // in this boot
	LastCrash        string     `json:"lastCrash" yaml:"lastCrash"`
	LastBootEnd      string     `json:"lastBootEnd" yaml:"lastBootEnd"` // of the boot before: clean, power loss, kernel panic ...
	LastBootReason   string     `json:"lastBootReason" yaml:"lastBootReason"`
	ConfigGeneration uint64     `json:"configGeneration" yaml:"configGeneration"`
	Consoles         []Console  `json:"consoles" yaml:"consoles"`
	Links            []Link     `json:"links" yaml:"links"`
	MoreLinks        uint32     `json:"moreLinks" yaml:"moreLinks"` // that the node did not list
	Services         []Service  `json:"services" yaml:"services"`
	MoreServices     uint32     `json:"moreServices" yaml:"moreServices"` // that the node did not list
	ID               string     `json:"id" yaml:"id"`
	KeySHA256        string     `json:"keySha256" yaml:"keySha256"`
}

// Console is one console of a node.
type Console struct {
	Name         string `json:"name" yaml:"name"`
	WrittenBytes uint64 `json:"writtenBytes" yaml:"writtenBytes"`
	DroppedLines uint64 `json:"droppedLines" yaml:"droppedLines"`
	Stalled      bool   `json:"stalled" yaml:"stalled"`
}

// Ticket is a created ticket. It is shown this once.
type Ticket struct {
	Ticket  string    `json:"ticket" yaml:"ticket"`
	Node    string    `json:"node" yaml:"node"` // empty: any
	Expires time.Time `json:"expires" yaml:"expires"`
}

// Removed is what `node remove` did.
type Removed struct {
	Name  string `json:"name" yaml:"name"`
	State string `json:"state" yaml:"state"`
}

// Record is one record of a node's log.
type Record struct {
	Seq           uint64  `json:"seq" yaml:"seq"`
	UptimeSeconds float64 `json:"uptimeSeconds" yaml:"uptimeSeconds"` // since the node's boot
	Origin        string  `json:"origin" yaml:"origin"`
	Level         string  `json:"level" yaml:"level"`
	Text          string  `json:"text" yaml:"text"`
	Lost          uint64  `json:"lost" yaml:"lost"` // records before this one that the node no longer had
}

// NodeOf is the view of a node as a controller sent it.
func NodeOf(n *clusterv1.Node) Node {
	st := n.GetStatus()
	v := Node{
		Name: n.GetName(), ID: n.GetId(), KeySHA256: n.GetKeySha256(),
		State: enum(n.GetState(), "NODE_STATE_"), TPM: enum(n.GetTpmMode(), "TPM_MODE_"),
		BootID: n.GetBootId(), BuildID: n.GetBuildId(), Boots: n.GetBoots(), ConfigGeneration: n.GetConfigGeneration(),
		Enrolled: moment(n.GetEnrolled()), Joined: moment(n.GetJoined()), LastSeen: moment(n.GetLastSeen()),
		Stage: st.GetStage(), Reason: st.GetReason(), Sealed: st.GetSealed(), Binding: st.GetBinding(),
		Addresses:     append([]string{}, st.GetAddresses()...),
		APIAddresses:  append([]string{}, st.GetApiAddresses()...),
		UptimeSeconds: st.GetUptime().AsDuration().Seconds(),
		AgentCrashes:  st.GetAgentCrashes(), LastCrash: st.GetLastCrash(),
		LastBootEnd: st.GetLastBootEnd(), LastBootReason: st.GetLastBootReason(),
		Consoles: []Console{}, Links: linksOf(st), MoreLinks: st.GetMoreLinks(),
		Services: servicesOf(st), MoreServices: st.GetMoreServices(),
	}
	for _, c := range st.GetConsoles() {
		v.Consoles = append(v.Consoles, Console{c.GetName(), c.GetWrittenBytes(), c.GetDroppedLines(), c.GetStalled()})
	}
	return v
}

// NodesOf is the view of all nodes, in the order of their names.
func NodesOf(resp *clusterv1.ListNodesResponse) []Node {
	nodes := []Node{}
	for _, n := range resp.GetNodes() {
		nodes = append(nodes, NodeOf(n))
	}
	return nodes
}

// TicketOf is the view of a created ticket.
func TicketOf(t *clusterv1.CreateTicketResponse) Ticket {
	return Ticket{Ticket: t.GetTicket(), Node: t.GetNode(), Expires: t.GetExpires().AsTime()}
}

// RecordOf is the view of a log record.
func RecordOf(r *clusterv1.LogRecord) Record {
	return Record{r.GetSeq(), r.GetUptime().AsDuration().Seconds(), r.GetOrigin(), r.GetLevel(), r.GetText(), r.GetLost()}
}

// enum is a protobuf enum's value in the words of our files: "joined".
func enum(v interface{ String() string }, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(v.String(), prefix))
}

func moment(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}
