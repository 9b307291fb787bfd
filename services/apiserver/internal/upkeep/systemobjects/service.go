package systemobjects

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/dualstack"
)

const (
	// The Service by which pods reach the API, and the port that it always has.
	serviceName = "kubernetes"
	servicePort = 443
	// How often, and how many times, an apiserver checks whether another one has created the
	// `kubernetes` Service whose address is taken.
	addressEvery    = 100 * time.Millisecond
	addressAttempts = 30
)

// service returns the Service through which pods reach the API.
func (o *Objects) service() *corev1.Service {
	first, target := o.firstAddress().String(), uint16(servicePort)
	if o.Advertise.IsValid() {
		target = o.Advertise.Port()
	}
	single := corev1.IPFamilyPolicySingleStack
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: serviceName,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: first, ClusterIPs: []string{first}, IPFamilyPolicy: &single,
			IPFamilies: dualstack.FamiliesOf(o.ServiceCIDRs[:1]),
			Type:       corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: servicePort, TargetPort: intstr.FromInt32(int32(target)),
			}},
		},
	}
}

// firstAddress returns the address of the `kubernetes` Service.
func (o *Objects) firstAddress() netip.Addr { return allocate.NewRange(o.ServiceCIDRs[0]).First() }

// ensureService creates the `kubernetes` Service unless it exists. Its address may be taken
// already: for a moment by another apiserver that is just creating the Service, or for good by one
// that died in the process. In the latter case ensureService drops the record of the address.
func (o *Objects) ensureService(ctx context.Context, service *corev1.Service) error {
	ticker := time.NewTicker(addressEvery)
	defer ticker.Stop()
	for range addressAttempts {
		err := o.ensure(ctx, service.DeepCopy())
		if !apierrors.IsInvalid(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
	if err := o.Services.Forget(ctx, o.firstAddress(), types.NamespacedName{Namespace: service.Namespace, Name: service.Name}); err != nil {
		return err
	}
	return o.ensure(ctx, service)
}
