// Package dns is the cluster's DNS server on a node. It answers the pods of the node: questions
// about the cluster's zone from Services and EndpointSlices (package records), all others by asking
// the servers of the node (package forward).
//
// # Search in one question
//
// A pod's resolver appends its search domains to a name one after another: for "example.com" it asks
// about example.com.<ns>.svc.<zone>, example.com.svc.<zone>, example.com.<zone>, the same with the
// node's own search domains, and then example.com itself. The server knows in which namespace the
// asking pod is. If the first of these names does not exist, it looks up the others itself and
// answers at once, with a CNAME record to the one that exists (CoreDNS: plugin autopath).
//
// # Differences from CoreDNS
//
// With the Corefile of kubeadm, the answers are CoreDNS', and records of the zone hold for 30 s, as
// there. These differences are deliberate:
//   - Records of the zone are not cached: a name is known as soon as its EndpointSlice is.
//   - An alias (ExternalName) whose target cannot be resolved is a failure, not an empty answer.
//   - A search that ends with a failure of other servers is answered as if there was no search.
//   - Questions of type ANY get a short answer (RFC 8482).
//   - UDP answers have at most 1,232 bytes, even if the asker accepts more.
//   - Other servers are asked in the order of resolv.conf, as resolvers do, not at random. If one
//     fails or refuses, the next is asked.
//   - A name that does not exist does not exist whatever is asked about it (CoreDNS: SOA), and one
//     that exists does (CoreDNS: TXT of namespaces).
//   - Pods have no SRV records.
//   - The alias that a search adds holds as long as the records of the zone, not as the answer.
//   - The NS record of the zone is ns.dns.<zone>.
//   - Unless Config.Namespaces is set, namespaces without Services are not known: names of pods
//     exist in every namespace.
package dns
