// Package netcfg makes a machine's network what a netplan document says, from
// whatever state it is in, and keeps it so.
//
// Parse compiles a document into a Config that cannot be wrong. Plan compares
// it with an observed State and yields the operations still missing; it is
// pure. A Reconciler observes, plans, applies and reads back until the plan is
// empty, and afterwards repairs drift. An empty plan means converged, and a
// converged machine is not written to.
package netcfg
