package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// Override places the objects of one resource in a separate etcd cluster. That cluster has its own
// revisions and its own history: the resource's resourceVersions cannot be compared with those of
// other resources.
type Override struct {
	// Resource is the stored resource. A newer form of a resource (events.k8s.io) means the stored
	// one.
	Resource schema.GroupResource
	// Servers are the cluster's client URLs; at least one.
	Servers []string
}

// ParseOverride parses kube-apiserver's notation, group/resource#servers. The servers are URLs
// separated by semicolons. The group of core resources is empty.
func ParseOverride(text string) (Override, error) {
	resource, servers, ok := strings.Cut(text, "#")
	if !ok || strings.Contains(servers, "#") {
		return Override{}, fmt.Errorf("%q is not GROUP/RESOURCE#SERVERS", text)
	}
	group, name, ok := strings.Cut(resource, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return Override{}, fmt.Errorf("%q is not GROUP/RESOURCE#SERVERS: %q is not a resource", text, resource)
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

// cluster is a separate etcd cluster that holds some kinds instead of the main one.
type cluster struct {
	servers []string
	kinds   []schema.GroupVersionKind // the stored kinds
	name    string
}

// clusters groups the overrides by their servers. Its errors name the faulty override.
func clusters(table *scheme.Table, overrides []Override) ([]*cluster, error) {
	byServers := map[string]*cluster{}
	seen := map[schema.GroupVersionKind]bool{}
	var all []*cluster
	for _, o := range overrides {
		kind := kindOf(table, o.Resource)
		if kind == nil {
			return nil, fmt.Errorf("no resource %s is stored, so it cannot have an etcd cluster of its own", o.Resource)
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
		// The name must be the same in every apiserver, independent of the order in the flag.
		slices.SortFunc(c.kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
		c.name = table.Kind(c.kinds[0]).GroupResource().String()
	}
	return all, nil
}

// kindOf returns the row of the kind that is stored for a resource; nil if there is none.
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

// Of returns the store of the etcd cluster that holds kind's objects: s itself, unless the kind has
// a cluster of its own. Its revisions and history are that cluster's. Methods that take a kind call
// Of themselves.
func (s *Store) Of(kind *scheme.Kind) *Store {
	if other := s.others[kind.Storage]; other != nil {
		return other
	}
	return s
}

// Clusters returns the stores of all etcd clusters. The first is s, the main one.
func (s *Store) Clusters() []*Store { return append([]*Store{s}, s.overrides...) }

// Cluster returns the name of the store's etcd cluster: empty for the main one, else the resource
// that it holds (the first one, if several).
func (s *Store) Cluster() string { return s.cluster }

// Compact compacts every etcd cluster once per interval, to its revision of one interval ago, until
// ctx ends. However many apiservers run, one of them compacts in each interval. Compaction never
// removes current values, whatever their age, and a follower that is less than an interval behind
// misses nothing. With an interval of 0, Compact does nothing.
func (s *Store) Compact(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range s.Clusters() {
		group.Go(func() error {
			one.etcd.CompactEvery(ctx, interval)
			return nil
		})
	}
	return group.Wait()
}
