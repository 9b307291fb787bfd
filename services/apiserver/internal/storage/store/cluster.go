package store

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// Override says that the objects of one resource are in an etcd cluster of their own. That
// cluster has its own revisions and its own history: resourceVersions of the resource cannot
// be compared with those of others.
type Override struct {
	// Resource is the resource as it is stored; the newer form of a resource (events.k8s.io)
	// means the stored one.
	Resource schema.GroupResource
	// Servers are the cluster's client URLs; at least one.
	Servers []string
}

// ParseOverride reads kube-apiserver's notation: group/resource#servers, the servers being
// URLs with semicolons between them, the group of the core resources being empty.
func ParseOverride(text string) (Override, error) {
	resource, servers, ok := strings.Cut(text, "#")
	if !ok || strings.Contains(servers, "#") {
		return Override{}, fmt.Errorf("%q is not GROUP/RESOURCE#SERVERS", text)
	}
	group, name, ok := strings.Cut(resource, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return Override{}, fmt.Errorf("%q is not GROUP/RESOURCE#SERVERS: %q is no resource", text, resource)
	}
	o := Override{Resource: schema.GroupResource{Group: group, Resource: name}}
	for server := range strings.SplitSeq(servers, ";") {
		if server == "" {
			return Override{}, fmt.Errorf("%q is not GROUP/RESOURCE#SERVERS: a server is empty", text)
		}
		o.Servers = append(o.Servers, server)
	}
	return o, nil
}

// cluster is an etcd cluster in place of the main one.
type cluster struct {
	servers []string
	kinds   []schema.GroupVersionKind // as they are stored
	name    string
}

// clusters puts together the overrides with the same servers. It names what is wrong.
func clusters(table *scheme.Table, overrides []Override) ([]*cluster, error) {
	byServers := map[string]*cluster{}
	seen := map[schema.GroupVersionKind]bool{}
	var all []*cluster
	for _, o := range overrides {
		kind := kindOf(table, o.Resource)
		if kind == nil {
			return nil, fmt.Errorf("no resource %s is stored that could have an etcd of its own", o.Resource)
		}
		if seen[kind.Storage] {
			return nil, fmt.Errorf("two etcd clusters are given for the resource %s", o.Resource)
		}
		seen[kind.Storage] = true
		servers := slices.Sorted(slices.Values(o.Servers))
		key := strings.Join(servers, ";")
		if byServers[key] == nil {
			byServers[key] = &cluster{servers: o.Servers}
			all = append(all, byServers[key])
		}
		byServers[key].kinds = append(byServers[key].kinds, kind.Storage)
	}
	for _, c := range all {
		// The name must be the same in every apiserver, in whatever order the flag lists.
		slices.SortFunc(c.kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
		c.name = table.Kind(c.kinds[0]).GroupResource().String()
	}
	return all, nil
}

// kindOf is the row of the kind that is stored for a resource; nil if there is none.
func kindOf(table *scheme.Table, resource schema.GroupResource) *scheme.Kind {
	for _, kind := range table.Kinds() {
		if kind.GroupResource() == resource {
			if stored := table.Kind(kind.Storage); stored != nil && stored.Stored() {
				return stored
			}
		}
	}
	return nil
}

// Of is the store of the etcd cluster that holds kind's objects: s itself, unless the kind has
// a cluster of its own. Its revisions and its history are those of that cluster. Calls that
// name a kind need no Of: they find the cluster themselves.
func (s *Store) Of(kind *scheme.Kind) *Store {
	if other := s.others[kind.Storage]; other != nil {
		return other
	}
	return s
}

// Clusters are the stores of all etcd clusters, the main one, which is s, first.
func (s *Store) Clusters() []*Store { return append([]*Store{s}, s.overrides...) }

// Cluster names the store's etcd cluster: empty for the main one, else by the resource, or the
// first of the resources, that it is for.
func (s *Store) Cluster() string { return s.cluster }
