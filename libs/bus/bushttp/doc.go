// Package bushttp carries HTTP over NATS: Transport is an http.RoundTripper, so that any
// client-go client can use it, and Server hands the requests to an http.Handler. A program
// behind NAT then reaches the API by its one outbound connection to NATS, and a request goes to
// any apiserver that is there.
//
// # Protocol
//
// A request is published at the caller's subject below gb.api, with the caller's inbox as its
// reply subject; one apiserver of the queue group takes it. What the apiserver sends goes to
// that inbox, and bears as its reply subject the inbox of the apiserver that takes what the
// caller says later. A small request and its small answer are one message each. Larger ones are
// parts of at most 256 KB, each with its offset in the body, so that a lost part is noticed.
//
// Nobody sends more than the other end has given credit for. The reader of a body gives it while
// it reads, and a handler none before it does, so that a slow reader holds back only the writer of
// his own answer; and all callers on a Transport together have at most some 32 MB of credit that is
// not used yet, so that even a slow connection to NATS does not reach the 48 MB at which NATS drops
// what is sent to it.
//
// A caller beats: it asks every apiserver which is answering it, a few times within Patience,
// about all its calls there. The answer says how far each is. So both ends learn within Patience
// that the other is gone, that a call is unknown, or that parts were lost; a killed apiserver is
// known at the next beat, since NATS says that nobody takes it.
//
// # What callers see
//
// No apiserver, or no NATS: an error that is syscall.ECONNREFUSED. Nothing was done.
//
// An apiserver or a connection lost before the answer began: an error that is
// syscall.ECONNRESET, as over HTTP. Whether the request was done is not known; to repeat it is
// the caller's decision, and client-go repeats reads.
//
// Lost within the answer: reading the body fails with io.ErrUnexpectedEOF. An answer is never
// silently cut.
//
// The caller's context, or closing the body, ends the context of the handler at once.
//
// More requests at a time than a server takes, 16,384 or 8,192 of one user: 429. The body of a GET
// or HEAD is not handed on.
//
// Who calls is told by the request's own bearer token, as in HTTP; client certificates do not
// exist here. Connections cannot be upgraded: that is answered with 501.
package bushttp
