package join

import "time"

// wasRefused records that the apiserver rejected a certificate.
func (j *Joiner) wasRefused(serial string) {
	j.mu.Lock()
	mine := j.current != nil && j.current.leaf.SerialNumber.String() == serial
	first := mine && !j.refused
	if first {
		j.refused = true
		j.problem = said(errRefused, "the apiserver does not take the node's certificate in %s (401 Unauthorized); the node asks for another one with the bootstrap token", j.path)
	}
	j.mu.Unlock()
	if first {
		j.wakeUp()
	}
}

// wasDoubted records that NATS does not let a certificate in, and that no apiserver was reached otherwise
// that could tell why. The node then tries the bootstrap token, now and then.
func (j *Joiner) wasDoubted(serial string) {
	j.mu.Lock()
	mine := j.current != nil && j.current.leaf.SerialNumber.String() == serial
	first := mine && !j.doubted && time.Since(j.triedAt) >= doubtful
	if first {
		j.doubted, j.triedAt = true, time.Now()
	}
	j.mu.Unlock()
	if first {
		j.wakeUp()
	}
}

func (j *Joiner) wakeUp() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// wasTaken records that the apiserver accepted a certificate.
func (j *Joiner) wasTaken(serial string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current != nil && j.current.leaf.SerialNumber.String() == serial {
		j.refused, j.doubted = false, false
	}
}

// settles reports whether a failed attempt was made only because NATS does not let the certificate in.
// Nothing says that the certificate is not valid, so the node keeps it.
func (j *Joiner) settles() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.doubted {
		return false
	}
	j.doubted = false
	return j.works() && time.Now().Before(j.renewAt)
}
