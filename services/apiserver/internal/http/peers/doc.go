// Package peers passes requests on to other apiservers of the plane, for kinds that they serve and this
// server does not. That happens while a plane is upgraded, and its apiservers are of two versions: a client
// may be connected to any of them, and sees in each what any of them serves (KEP 4020, mixed version proxy).
//
// Each apiserver publishes its address in its identity Lease. This package asks the others every ten seconds
// what they serve themselves.
package peers
