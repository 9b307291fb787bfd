// Package replay reads the log of watch messages for others: nobody but the apiservers may
// touch JetStream, so that whoever wants to know what happened asks one of them, page by page,
// and is authorized for each. It serves readers of history; informers never need it. It
// follows the rules P6 and R4 of the watch fabric.
package replay
