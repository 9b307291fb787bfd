package resourceclaim

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// metrics count creations of claims.
type metrics struct{ creations *prometheus.CounterVec }

// newMetrics returns the metrics, and registers them, and the numbers of claims in a cache, unless the
// registerer is nil.
func newMetrics(registerer prometheus.Registerer, claims *controller.Objects[*resourcev1.ResourceClaim]) metrics {
	m := metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dynamic_resource_allocation_resourceclaim_creates_total", Help: "Requests to create ResourceClaims.",
	}, []string{"status", "admin_access", "owner_api_group", "owner_api_kind"})}
	if registerer != nil {
		registerer.MustRegister(m.creations, inventory{claims, prometheus.NewDesc(
			"dynamic_resource_allocation_resource_claims", "ResourceClaims that exist.",
			[]string{"allocated", "admin_access", "source"}, nil)})
	}
	return m
}

// created counts a creation that ended with err.
func (m metrics) created(claim *resourcev1.ResourceClaim, err error) {
	status, group, kind := "success", "", ""
	if err != nil {
		status = "failure"
	}
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil {
		group, kind = schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group, owner.Kind
	}
	m.creations.WithLabelValues(status, strconv.FormatBool(adminAccess(claim)), group, kind).Inc()
}

// adminAccess reports whether a claim asks for the access of administrators.
func adminAccess(claim *resourcev1.ResourceClaim) bool {
	for i := range claim.Spec.Devices.Requests {
		if exactly := claim.Spec.Devices.Requests[i].Exactly; exactly != nil && exactly.AdminAccess != nil && *exactly.AdminAccess {
			return true
		}
	}
	return false
}

// inventory counts the claims of a cache when it is asked.
type inventory struct {
	claims *controller.Objects[*resourcev1.ResourceClaim]
	desc   *prometheus.Desc
}

// Describe sends the only description.
func (i inventory) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- i.desc }

// Collect sends the numbers of claims.
func (i inventory) Collect(found chan<- prometheus.Metric) {
	type labels struct {
		allocated, admin bool
		source           string
	}
	counts := map[labels]int{}
	for _, claim := range i.claims.In("") {
		l := labels{allocated: claim.Status.Allocation != nil, admin: adminAccess(claim)}
		switch {
		case claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true":
			l.source = "extended_resource"
		case claim.Annotations[resourcev1.PodResourceClaimAnnotation] != "":
			l.source = "resource_claim_template"
		}
		counts[l]++
	}
	for l, count := range counts {
		found <- prometheus.MustNewConstMetric(i.desc, prometheus.GaugeValue, float64(count),
			strconv.FormatBool(l.allocated), strconv.FormatBool(l.admin), l.source)
	}
}
