// Package replay reads the log of watch messages on behalf of clients. Only the apiservers have
// access to JetStream, so a client that wants to know what happened asks one of them, page by page,
// and is authorized for each page. It serves readers of history; informers never need it. It
// implements the rules P6 and R4 of the watch fabric.
package replay
