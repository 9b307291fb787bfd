package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// documents describe what is served, by path. They do not change.
type documents struct {
	plain map[string]runtime.Object
	// together encodes the aggregated documents when they are first requested.
	together map[string]func() (document, error)
	groups   map[string]*group
	others   *Others // of which they tell
}

// document is an encoded aggregated document.
type document struct {
	data []byte
	etag string
}

// group is what documents tell of one group, while what serves it is the same.
type group struct {
	entries []*entry
	plain   map[string]runtime.Object // by path
	// about is the group's place in the list of groups.
	about metav1.APIGroup
	// item encodes the group's place in an aggregated document when it is first needed.
	item func() ([]byte, error)
}

// describe builds the documents of kinds and others. It takes over the groups of earlier documents that are
// the same.
func describe(kinds []*scheme.Kind, others *Others, priority func(*scheme.Kind) Priority, before *documents) *documents {
	h := &documents{plain: map[string]runtime.Object{}, groups: map[string]*group{}, others: others}
	h.plain["/api"] = &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	all := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	var core, named []*group
	for _, versions := range entries(scheme.Served(kinds), others, priority) {
		name := versions[0].Group
		one := before.groups[name]
		if one == nil || !slices.EqualFunc(one.entries, versions, (*entry).same) {
			one = newGroup(versions)
		}
		h.groups[name] = one
		maps.Copy(h.plain, one.plain)
		if name == "" {
			core = append(core, one)
			continue
		}
		named, all.Groups = append(named, one), append(all.Groups, one.about)
	}
	h.plain["/apis"] = all
	h.together = map[string]func() (document, error){"/api": together("/api", core), "/apis": together("/apis", named)}
	return h
}

// same reports whether two versions are served by the same.
func (e *entry) same(other *entry) bool {
	return e.GroupVersion == other.GroupVersion && e.api == other.api && e.more == other.more && slices.Equal(e.kinds, other.kinds)
}

// newGroup builds what is told of a group, of which it gets all versions, the preferred one first.
func newGroup(versions []*entry) *group {
	g := &group{entries: versions, plain: map[string]runtime.Object{}, about: metav1.APIGroup{Name: versions[0].Group}}
	for _, one := range versions {
		if one.api == nil { // Otherwise its server is asked.
			g.plain[path(one.GroupVersion)] = resourceList(one)
		}
		g.about.Versions = append(g.about.Versions, metav1.GroupVersionForDiscovery{GroupVersion: one.String(), Version: one.Version})
	}
	if g.about.Name != "" {
		g.about.PreferredVersion = g.about.Versions[0]
		one := g.about
		one.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		g.plain["/apis/"+one.Name] = &one
	}
	g.item = sync.OnceValues(func() ([]byte, error) {
		item := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.about.Name}}
		for _, one := range versions {
			item.Versions = append(item.Versions, one.discovery())
		}
		return json.Marshal(item)
	})
	return g
}

// discovery returns the place of a version in an aggregated document.
func (e *entry) discovery() apidiscoveryv2.APIVersionDiscovery {
	told := apidiscoveryv2.APIVersionDiscovery{Version: e.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	if e.api == nil {
		if told.Resources = discoveries(e.kinds); e.more != nil {
			told.Resources = append(told.Resources, e.more.Resources...)
		}
		return told
	}
	if told.Resources = e.api.Resources; !e.api.Current {
		told.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
	}
	return told
}

// together returns what encodes an aggregated document of groups.
func together(path string, groups []*group) func() (document, error) {
	return sync.OnceValues(func() (document, error) {
		items := make([]json.RawMessage, len(groups))
		for i, one := range groups {
			item, err := one.item()
			if err != nil {
				return document{}, fmt.Errorf("encoding the aggregated discovery of %s: %w", path, err)
			}
			items[i] = item
		}
		list := struct {
			metav1.TypeMeta `json:",inline"`
			metav1.ListMeta `json:"metadata"`
			Items           []json.RawMessage `json:"items"`
		}{Items: items}
		list.SetGroupVersionKind(aggregated)
		data, err := json.Marshal(list)
		if err != nil {
			return document{}, fmt.Errorf("encoding the aggregated discovery of %s: %w", path, err)
		}
		sum := sha256.Sum256(data)
		return document{data: data, etag: `"` + strings.ToUpper(hex.EncodeToString(sum[:])) + `"`}, nil
	})
}

func path(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}
