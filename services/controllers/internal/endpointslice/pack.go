package endpointslice

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/serviceendpoints"
)

// packing is a plan, and what it changes.
type packing struct {
	serviceendpoints.Plan
	// added and removed are numbers of endpoints.
	added, removed int
	// sizes are the numbers of endpoints by the key of their ports.
	sizes []int
}

// pack plans how slices of one type of addresses come to hold the endpoints that are wanted, with as few
// writes as that takes: endpoints stay where they are, slices that change anyway are filled first, and
// others stay as they are unless one has room for all that is left.
func pack(svc *corev1.Service, addressType discoveryv1.AddressType, wanted map[string]*group,
	existing []*discoveryv1.EndpointSlice) packing {
	var p packing
	byPorts := map[string][]*discoveryv1.EndpointSlice{}
	for _, slice := range existing {
		if !ownedBy(slice, svc) {
			p.Delete = append(p.Delete, slice)
			continue
		}
		ports := serviceendpoints.PortKey(slice.Ports)
		byPorts[ports] = append(byPorts[ports], slice)
	}
	for _, ports := range slices.Sorted(maps.Keys(wanted)) {
		p.sizes = append(p.sizes, len(wanted[ports].order))
		p.group(svc, addressType, wanted[ports], byPorts[ports])
	}
	for _, ports := range slices.Sorted(maps.Keys(byPorts)) {
		if wanted[ports] == nil {
			p.Delete = append(p.Delete, byPorts[ports]...)
		}
	}
	if len(p.Create) == 0 && len(p.Delete) == len(existing) {
		// A Service without endpoints has a slice without endpoints.
		placeholder := newSlice(svc, addressType, []discoveryv1.EndpointPort{})
		if len(p.Delete) == 1 && samePlaceholder(p.Delete[0], placeholder) {
			p.Delete = nil
		} else {
			p.Create = append(p.Create, placeholder)
		}
	}
	return p
}

// group plans for endpoints with the same ports.
func (p *packing) group(svc *corev1.Service, addressType discoveryv1.AddressType, g *group, existing []*discoveryv1.EndpointSlice) {
	var changed, unchanged []*discoveryv1.EndpointSlice
	placed := map[serviceendpoints.Identity]bool{}
	for _, slice := range existing {
		kept, different := keep(slice, g, placed)
		labels, relabeled := sliceLabels(svc, slice.Labels)
		p.removed += max(0, len(slice.Endpoints)-len(kept))
		switch {
		case different && len(kept) == 0:
			p.Delete = append(p.Delete, slice)
		case different || relabeled:
			slice = slice.DeepCopy()
			slice.Labels = labels
			if different {
				slice.Endpoints = kept
			}
			changed = append(changed, slice)
		default:
			unchanged = append(unchanged, slice)
		}
	}
	var left []discoveryv1.Endpoint
	for _, id := range g.order {
		if !placed[id] {
			left = append(left, *g.endpoints[id])
		}
	}
	p.added += len(left)
	slices.SortStableFunc(changed, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(len(b.Endpoints), len(a.Endpoints)) })
	for _, slice := range changed {
		left = fill(slice, left)
	}
	p.Update = append(p.Update, changed...)
	for len(left) > 0 {
		if i := withRoom(unchanged, len(left)); i >= 0 {
			slice := unchanged[i].DeepCopy()
			unchanged = slices.Delete(slices.Clone(unchanged), i, i+1)
			left = fill(slice, left)
			p.Update = append(p.Update, slice)
			continue
		}
		slice := newSlice(svc, addressType, g.ports)
		left = fill(slice, left)
		p.Create = append(p.Create, slice)
	}
}

// keep returns the endpoints of a slice that are wanted, as they should be, and notes them as placed.
// Different reports whether they differ from those that the slice has.
func keep(slice *discoveryv1.EndpointSlice, g *group,
	placed map[serviceendpoints.Identity]bool) (kept []discoveryv1.Endpoint, different bool) {
	for i := range slice.Endpoints {
		id := serviceendpoints.Identify(&slice.Endpoints[i])
		endpoint := g.endpoints[id]
		if endpoint == nil || placed[id] {
			continue
		}
		placed[id] = true
		kept = append(kept, *endpoint)
		different = different || !serviceendpoints.Same(endpoint, &slice.Endpoints[i])
	}
	return kept, different || len(kept) != len(slice.Endpoints)
}

// fill moves endpoints into a slice until it is full, and returns the others.
func fill(slice *discoveryv1.EndpointSlice, left []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	n := min(len(left), max(0, maxEndpoints-len(slice.Endpoints)))
	slice.Endpoints = append(slice.Endpoints, left[:n]...)
	return left[n:]
}

// withRoom returns the index of the slice that n more endpoints leave the least room in; -1 if none has
// room for them and something in it.
func withRoom(all []*discoveryv1.EndpointSlice, n int) int {
	best, least := -1, maxEndpoints
	for i, slice := range all {
		if room := maxEndpoints - n - len(slice.Endpoints); room >= 0 && room < least {
			best, least = i, room
		}
	}
	return best
}

// newSlice returns a slice without endpoints.
func newSlice(svc *corev1.Service, addressType discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	labels, _ := sliceLabels(svc, nil)
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: svc.Namespace, GenerateName: serviceendpoints.NamePrefix(svc.Name), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))},
		},
		AddressType: addressType, Ports: ports, Endpoints: []discoveryv1.Endpoint{},
	}
}

// sliceLabels returns the labels of a Service's slices, and whether those that a slice has copied from
// the Service have changed.
func sliceLabels(svc *corev1.Service, current map[string]string) (wanted map[string]string, changed bool) {
	reserved := func(label, _ string) bool {
		return label == discoveryv1.LabelServiceName || label == discoveryv1.LabelManagedBy || label == corev1.IsHeadlessService
	}
	wanted = maps.Clone(svc.Labels)
	if wanted == nil {
		wanted = map[string]string{}
	}
	maps.DeleteFunc(wanted, reserved)
	copied := maps.Clone(current)
	maps.DeleteFunc(copied, reserved)
	changed = !maps.Equal(copied, wanted)
	if headless(svc) {
		wanted[corev1.IsHeadlessService] = ""
	}
	wanted[discoveryv1.LabelServiceName], wanted[discoveryv1.LabelManagedBy] = svc.Name, manager
	return wanted, changed
}

// samePlaceholder reports whether a slice can be the placeholder.
func samePlaceholder(slice, placeholder *discoveryv1.EndpointSlice) bool {
	return len(slice.Endpoints) == 0 && len(slice.Ports) == 0 && slice.AddressType == placeholder.AddressType &&
		maps.Equal(slice.Labels, placeholder.Labels)
}

// ownedBy reports whether a slice belongs to this Service, and not to an earlier one of its name.
func ownedBy(slice *discoveryv1.EndpointSlice, svc *corev1.Service) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == svc.UID && ref.Kind == "Service" && ref.APIVersion == "v1"
	})
}
