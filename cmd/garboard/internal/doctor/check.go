package doctor

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/garboard/garboard/libs/report"
)

// The limits of a healthy plane.
const (
	// soon is the remaining time at which a certificate should be renewed; near that at which
	// renewal is urgent.
	soon = 30 * 24 * time.Hour
	near = 3 * 24 * time.Hour
	// skew is the tolerated difference of clocks; badSkew is the difference at which leases and
	// certificates fail.
	skew    = 2 * time.Second
	badSkew = 30 * time.Second
)

// Check judges the facts.
func Check(f *Facts) Findings {
	if f.Status != nil {
		// Other programs that watch the plane may report anything about themselves.
		own := *f.Status
		own.Answers = slices.DeleteFunc(slices.Clone(own.Answers), func(a report.Answer) bool {
			return !slices.Contains([]string{report.Apiserver, report.Controllers, report.Scheduler, report.NodeAgent}, a.Service)
		})
		known := *f
		known.Status, f = &own, &known
	}
	all := Findings{}
	in := func(group string) list { return list{group: group, all: &all} }
	checkAPI(in("API"), f)
	if f.Dial != nil || f.ReadyErr != nil || f.ReadyCode == http.StatusUnauthorized {
		return all
	}
	if f.StatusErr != nil {
		l := in("Plane")
		if isForbidden(f.StatusErr) {
			l.add(Fail, "status", f.StatusErr.Error(), "Use an administrator's kubeconfig, or grant get on the nonResourceURL "+report.StatusPath+".")
		} else {
			l.add(Fail, "status", f.StatusErr.Error(), "See the apiserver's log; without its status, the state of etcd, NATS and the other processes is unknown.")
		}
	}
	if s := f.Status; s != nil {
		checkApiservers(in("Apiservers"), f)
		for _, etcd := range s.Etcd {
			checkEtcd(in("etcd "+etcd.Name), etcd)
		}
		checkNATS(in("NATS"), s)
		checkPublishers(in("Publisher"), s)
		checkWatchers(in("Informers"), s)
	}
	checkLeases(in("Leases"), f)
	checkNodes(in("Nodes"), f)
	checkNetwork(in("Network"), f)
	checkStorage(in("Storage"), f)
	checkAutoscalers(in("Autoscaling"), f)
	checkAPIServices(in("Aggregated APIs"), f)
	checkExtension(in("Extension"), f)
	checkContention(in("Contention"), f)
	if f.Status != nil {
		checkClocks(in("Clocks"), f)
		checkVersions(in("Versions"), f)
		checkCertificates(in("Certificates"), f)
	}
	return all
}

func checkAPI(l list, f *Facts) {
	if f.Dial != nil {
		l.add(Fail, "connection", fmt.Sprintf("%s cannot be reached: %v", f.Server, f.Dial), dialAdvice(f.Dial))
		return
	}
	l.ok("connection", "%s answers by TLS", f.Server)
	if f.Trust != nil {
		l.add(Fail, "trust", f.Trust.Error(), trustAdvice(f.Trust))
	} else {
		l.ok("trust", "the kubeconfig's authority vouches for the server")
	}
	if len(f.Chain) > 0 {
		checkCertificate(l, "serving certificate", report.OfCertificate("serving", f.Chain[0]), f.Now, "Have the apiserver create or read a new one (garboard init, or --tls-cert-file), and restart it.")
	}
	for _, c := range f.Client {
		checkCertificate(l, "client certificate", c, f.Now, "Get a new kubeconfig (from garboard init, or from the person who gave you this one).")
	}
	if len(f.Client) == 0 && !f.Token {
		l.add(Warn, "credential", "the kubeconfig has neither a client certificate nor a token", "Use a kubeconfig with a credential; anonymous users may do next to nothing.")
	}
	switch {
	case f.ReadyErr != nil:
		advice := "See the apiserver's log."
		if f.Trust != nil {
			advice = trustAdvice(f.Trust)
		}
		l.add(Fail, "ready", fmt.Sprintf("/readyz does not answer: %v", f.ReadyErr), advice)
	case f.ReadyCode == http.StatusUnauthorized:
		l.add(Fail, "ready", "the server does not accept the kubeconfig's credential (401)", "Get a new kubeconfig: the certificate is from another CA or has expired, or the token is not valid.")
	case f.ReadyCode != http.StatusOK:
		l.add(Fail, "ready", "the server is not ready: "+failedChecks(f.Ready), "Fix what the failed check names; its reason is in the apiserver's log.")
	default:
		l.ok("ready", "every check of /readyz passes (%v)", f.Took.Round(time.Millisecond))
	}
}

// failedChecks returns the failed checks in a verbose health response.
func failedChecks(text string) string {
	var failed []string
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "[-]"); ok {
			failed = append(failed, name)
		}
	}
	if len(failed) == 0 {
		return strings.TrimSpace(text)
	}
	return strings.Join(failed, "; ")
}

func dialAdvice(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "Check the server's name in the kubeconfig, and this machine's DNS."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Nothing listens there: check that an apiserver runs, and the port in the kubeconfig."
	}
	return "Check the server in the kubeconfig, the network and firewalls on the way, and that an apiserver runs there."
}

func trustAdvice(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "The kubeconfig has another certificate authority than the server's: get a new kubeconfig, unless somebody impersonates the server."
	case errors.As(err, &host):
		return "Use a name that is in the serving certificate, or add this one (--hosts of the apiserver, garboard init)."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "Renew the serving certificate and restart the apiserver; check this machine's clock too."
	}
	return "Put the plane's authority into the kubeconfig as certificate-authority-data."
}

// checkCertificate judges a certificate by its dates.
func checkCertificate(l list, name string, c report.Certificate, now time.Time, advice string) {
	left := c.NotAfter.Sub(now)
	switch {
	case c.Fault != "":
		l.add(Fail, name, c.Fault, advice)
	case now.Before(c.NotBefore):
		l.add(Fail, name, fmt.Sprintf("%s is not valid before %s", c.Subject, date(c.NotBefore)), "Correct the clocks: this machine's, and that of the machine that issued the certificate.")
	case left <= 0:
		l.add(Fail, name, fmt.Sprintf("%s ended %s ago (%s)", c.Subject, long(-left), date(c.NotAfter)), advice)
	case left < near:
		l.add(Fail, name, fmt.Sprintf("%s ends in %s (%s)", c.Subject, long(left), date(c.NotAfter)), advice)
	case left < soon:
		l.add(Warn, name, fmt.Sprintf("%s ends in %s (%s)", c.Subject, long(left), date(c.NotAfter)), advice)
	default:
		l.ok(name, "%s is valid until %s", c.Subject, date(c.NotAfter))
	}
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// long formats a duration in a unit suitable for people.
func long(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d/time.Hour))
	}
	return d.Round(time.Second).String()
}

func checkClocks(l list, f *Facts) {
	if !f.ServerTime.IsZero() {
		// The header has a resolution of one second.
		off := f.Now.Sub(f.ServerTime)
		judgeSkew(l, "this machine and the apiserver", off, skew+time.Second+f.Took)
	}
	for _, a := range f.Status.Answers {
		if a.Service == apiserver && a.Replica == f.Status.Apiserver {
			continue
		}
		off := time.Duration(a.Behind * float64(time.Second))
		judgeSkew(l, a.Service+" "+a.Replica, off, skew+time.Duration(a.Seconds*float64(time.Second)))
	}
	if len(*l.all) > 0 && (*l.all)[len(*l.all)-1].Group != l.group {
		l.ok("all", "the clocks of all processes that answered agree")
	}
}

// judgeSkew reports only clocks that differ: there may be thousands.
func judgeSkew(l list, name string, off, allowed time.Duration) {
	size := off.Abs()
	says := fmt.Sprintf("its clock is %v behind the apiserver's", size.Round(100*time.Millisecond))
	if off < 0 {
		says = fmt.Sprintf("its clock is %v ahead of the apiserver's", size.Round(100*time.Millisecond))
	}
	const advice = "Synchronize the clocks (NTP): leases, tokens and certificates are judged by them."
	switch {
	case size > badSkew:
		l.add(Fail, name, says, advice)
	case size > allowed:
		l.add(Warn, name, says, advice)
	}
}

func checkVersions(l list, f *Facts) {
	by := map[string][]string{}
	for _, a := range f.Status.Answers {
		by[a.Version] = append(by[a.Version], a.Service+" "+a.Replica)
	}
	versions := sorted(by)
	if len(versions) == 1 {
		l.ok("services", "all run %s", orUnknown(versions[0]))
	} else {
		var parts []string
		for _, v := range versions {
			parts = append(parts, fmt.Sprintf("%s: %s", orUnknown(v), some(by[v])))
		}
		l.add(Warn, "services", strings.Join(parts, "; "), "Finish the upgrade: apiservers first, then controllers and scheduler, node agents last.")
	}
	if f.Version != "" && len(versions) > 0 && !slices.Contains(versions, f.Version) {
		l.add(Warn, "this program", fmt.Sprintf("its version is %s, the plane's is %s", f.Version, orUnknown(versions[0])), "Use the garboard command of the plane's version.")
	}
}

func orUnknown(version string) string {
	if version == "" {
		return "an unknown version"
	}
	return version
}

func checkCertificates(l list, f *Facts) {
	sound := 0
	for _, a := range f.Status.Answers {
		for _, c := range a.Certificates {
			before := len(*l.all)
			checkCertificate(l, fmt.Sprintf("%s of %s %s", c.Use, a.Service, a.Replica), c, f.Now, "Renew it (garboard init) and restart the service; node agents renew theirs themselves while they can reach the API.")
			if (*l.all)[before].Level == OK {
				*l.all = (*l.all)[:before] // There may be thousands.
				sound++
			}
		}
	}
	if sound > 0 {
		l.ok("services", "%d certificates of the processes that answered are valid for %s or more", sound, long(soon))
	}
}
