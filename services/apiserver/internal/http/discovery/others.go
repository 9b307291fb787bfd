package discovery

import (
	"cmp"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/garboard/garboard/libs/scheme"
)

// Priority orders a group among the groups, and a version among those of its group; higher comes first.
type Priority struct{ Group, Version int32 }

// Others are the APIs that other servers serve. They do not change.
type Others struct{ APIs []API }

// Discovery implements Source.
func (o *Others) Discovery() *Others { return o }

// API is a version of a group that another server serves.
type API struct {
	schema.GroupVersion
	Priority Priority
	Served
}

// Served is what a server said about a version that it serves.
type Served struct {
	// Resources are what it serves.
	Resources []apidiscoveryv2.APIResourceDiscovery
	// Current reports that the server answered when it was last asked.
	Current bool
	// Partly reports that this server may serve other resources of the version, which come first.
	Partly bool
}

// Source knows the APIs that other servers serve. They come before those of the table: a version that
// another server serves whole is not described as this server's.
type Source interface {
	// Discovery returns the APIs as they are now: the same Others as long as they are the same.
	Discovery() *Others
}

// entry is a version of a group, and what serves it: kinds, or another server.
type entry struct {
	schema.GroupVersion
	priority Priority
	kinds    []*scheme.Kind
	api      *API // nil if this server has it
	more     *API // what another server has besides kinds; nil if none
}

// name is that of the APIService.
func (e *entry) name() string { return e.Version + "." + e.Group }

// entries returns the versions of all groups in the order in which they are shown, which is Kubernetes'
// (kube-aggregator, SortedByGroupAndVersion): the groups by their priority and then by the names of their
// APIServices, and the versions of a group by theirs and then by the age that their names tell.
func entries(served []*scheme.Kind, others *Others, priority func(*scheme.Kind) Priority) (groups [][]*entry) {
	var all []*entry
	byGV := map[schema.GroupVersion]*entry{}
	var partly []*API
	for i := range others.APIs {
		api := &others.APIs[i]
		if api.Partly {
			partly = append(partly, api)
			continue
		}
		one := &entry{GroupVersion: api.GroupVersion, priority: api.Priority, api: api}
		all, byGV[one.GroupVersion] = append(all, one), one
	}
	for _, kind := range served {
		one := byGV[kind.GroupVersion()]
		if one == nil {
			one = &entry{GroupVersion: kind.GroupVersion(), priority: priority(kind)}
			all, byGV[one.GroupVersion] = append(all, one), one
		}
		if one.api == nil {
			one.kinds = append(one.kinds, kind)
		}
	}
	for _, api := range partly {
		switch one := byGV[api.GroupVersion]; {
		case one == nil:
			all = append(all, &entry{GroupVersion: api.GroupVersion, priority: api.Priority, api: api})
		case one.api == nil:
			one.more = api
		}
	}
	slices.SortStableFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.priority.Group, a.priority.Group), strings.Compare(a.name(), b.name()))
	})
	at := map[string]int{}
	for _, one := range all {
		i, known := at[one.Group]
		if !known {
			i = len(groups)
			at[one.Group], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], one)
	}
	for _, group := range groups {
		slices.SortStableFunc(group, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(b.priority.Version, a.priority.Version), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
		})
	}
	return groups
}
