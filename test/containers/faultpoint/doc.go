// Package faultpoint stops a node agent between two calls to its container runtime. A Proxy stands
// in front of the runtime's CRI socket, so it works with every runtime. It names each call by its
// method and subject ("StartContainer web"). A test sets a Trap at one of those names: the call is
// held, before or after it takes effect, until the test releases it.
//
// The names come from a recorded run, so a new call of the agent automatically becomes a new point.
package faultpoint
