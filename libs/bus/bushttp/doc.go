// Package bushttp carries HTTP over NATS: Transport is an http.RoundTripper, so that any client-go
// client can use it, and a server of package serve passes the requests to an http.Handler. A program
// behind NAT then reaches the API through its one outbound connection to NATS, and any live apiserver
// can serve a request. By the same connection the apiservers reach the agent of a node.
//
// # Protocol
//
// The caller publishes a request at its subject below gb.api, with its inbox as the reply subject;
// one apiserver of the queue group takes it. A request to a node goes to gb.node.<node>.api, where only
// apiservers may publish. What follows says apiserver for either server. The apiserver sends its messages to that inbox. Their
// reply subject is the apiserver's own inbox for what the caller sends later. A small request and
// its small response are one message each. Larger ones are split into parts of at most 256 KB, each
// with its offset in the body, so that the receiver notices a lost part.
//
// Neither end sends more than the other has granted as credit. The reader of a body grants credit
// as it reads, and a handler grants none before it starts reading. So a slow reader holds back only
// the writer of its own body. What the readers of a Transport, or of Transports with one Budget, have granted
// and not read is about 32 MB at most, and so is that of a Server: the more it is, the less each body may be ahead of
// its reader, from 1 MB down to 32 KB. So even on a slow connection they stay below the 48 MB at which NATS drops
// messages to a subscriber.
//
// A caller sends beats: a few times within Patience it asks every apiserver that is serving its
// calls about all of them. The answer says how far each call is. So within Patience both ends learn
// that the other is gone, that a call is unknown, or that parts were lost. The caller detects a
// killed apiserver at the next beat, since NATS reports that nothing listens there.
//
// # What callers see
//
// No apiserver, or no NATS: an error that is syscall.ECONNREFUSED. The request was not executed.
//
// An apiserver or a connection lost before the response began: an error that is syscall.ECONNRESET,
// as over HTTP. The caller cannot know whether the request was executed, and decides itself whether
// to retry; client-go retries reads.
//
// Lost within the response: reading the body fails with io.ErrUnexpectedEOF. A response is never
// silently truncated.
//
// When the caller's context ends, or the caller closes the body, the context of the handler ends at
// once.
//
// More concurrent requests than a server accepts, 16,384 in total or 8,192 of one user, get 429.
// The body of a GET or HEAD is not passed on.
//
// The caller is authenticated by the request's own bearer token, as in HTTP. A request has no client
// certificate; the handler learns by serve.CallerOf which client of NATS sent it.
//
// # Upgrades
//
// A request that asks to upgrade its connection has no body. If the handler switches protocols, the
// response with the status 101 has a Conn as its body, and what were the bodies of request and response
// are the two directions of the connection, each with its own credit and its own end. The handler takes
// the connection as over HTTP, by http.Hijacker. Either end may close both directions at once; what it
// sent before arrives.
package bushttp
