// Package wire reads DNS questions and writes answers in the form of the network (RFC 1035), without
// allocation. A node's pods ask the same few names all the time, so most of the time of an answer
// would be spent in a general parser.
package wire
