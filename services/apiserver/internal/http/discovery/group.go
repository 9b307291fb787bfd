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
	"k8s.io/apimachinery/pkg/version"

	"github.com/garboard/garboard/libs/scheme"
)

// documents describe the kinds that are served, by path.
type documents struct {
	plain map[string]runtime.Object
	// together encodes the aggregated documents when they are first requested.
	together map[string]func() (document, error)
	groups   map[string]*group
}

// document is an encoded aggregated document.
type document struct {
	data []byte
	etag string
}

// group is what documents tell of one group, while its kinds are the same.
type group struct {
	kinds []*scheme.Kind
	plain map[string]runtime.Object // by path
	// about is the group's place in the list of groups.
	about metav1.APIGroup
	// item encodes the group's place in an aggregated document when it is first needed.
	item func() ([]byte, error)
}

// describe builds the documents of kinds. It takes over the groups of others whose kinds are the same.
func describe(kinds []*scheme.Kind, before documents) documents {
	names, of := grouped(scheme.Served(kinds))
	h := documents{plain: map[string]runtime.Object{}, groups: make(map[string]*group, len(names))}
	h.plain["/api"] = &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	all := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	var core, named []*group
	for _, name := range names {
		one := before.groups[name]
		if one == nil || !slices.Equal(one.kinds, of[name]) {
			one = newGroup(of[name])
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

// newGroup builds what is told of a group, which has the kinds.
func newGroup(kinds []*scheme.Kind) *group {
	g := &group{kinds: kinds, plain: map[string]runtime.Object{}, about: metav1.APIGroup{Name: kinds[0].Group}}
	versions := versionsOf(kinds)
	for _, gv := range versions {
		g.plain[path(gv)] = resourceList(gv, kindsOf(kinds, gv))
		g.about.Versions = append(g.about.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
	}
	if g.about.Name != "" {
		g.about.PreferredVersion = g.about.Versions[0]
		one := g.about
		one.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		g.plain["/apis/"+one.Name] = &one
	}
	g.item = sync.OnceValues(func() ([]byte, error) {
		item := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.about.Name}}
		for _, gv := range versions {
			item.Versions = append(item.Versions, apidiscoveryv2.APIVersionDiscovery{
				Version: gv.Version, Resources: discoveries(kindsOf(kinds, gv)), Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
			})
		}
		return json.Marshal(item)
	})
	return g
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

// grouped returns the kinds of each served group, and the groups in the order of their first kinds.
func grouped(served []*scheme.Kind) (names []string, kinds map[string][]*scheme.Kind) {
	kinds = map[string][]*scheme.Kind{}
	for _, kind := range served {
		if kinds[kind.Group] == nil {
			names = append(names, kind.Group)
		}
		kinds[kind.Group] = append(kinds[kind.Group], kind)
	}
	return names, kinds
}

// versionsOf returns the versions of a group, the preferred one first: in the order of the table
// for a built-in group, by their names for another.
func versionsOf(kinds []*scheme.Kind) []schema.GroupVersion {
	var versions []schema.GroupVersion
	builtin := false
	for _, kind := range kinds {
		builtin = builtin || !kind.Custom
		if gv := kind.GroupVersion(); !slices.Contains(versions, gv) {
			versions = append(versions, gv)
		}
	}
	if !builtin {
		slices.SortFunc(versions, func(a, b schema.GroupVersion) int {
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
	}
	return versions
}

func kindsOf(group []*scheme.Kind, gv schema.GroupVersion) []*scheme.Kind {
	var kinds []*scheme.Kind
	for _, kind := range group {
		if kind.GroupVersion() == gv {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func path(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}
