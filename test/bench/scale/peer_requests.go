package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
)

// clientRequests matches a counter of requests in the metrics of a manager.
var clientRequests = regexp.MustCompile(`^rest_client_requests_total\{code="[^"]*",host="([^"]*)",method="(\w+)"\} (\S+)`)

// peerRequests counts the requests that the peer sent to the plane, by method: it does
// not tell the resources apart.
func peerRequests() (map[string]int, error) {
	response, err := http.Get("http://" + peerMetrics + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of upstream's provider: %s", response.Status)
	}
	return countRequests(response.Body)
}

func countRequests(metrics io.Reader) (map[string]int, error) {
	counts := map[string]int{}
	scanner := bufio.NewScanner(metrics)
	for scanner.Scan() {
		match := clientRequests.FindStringSubmatch(scanner.Text())
		if match == nil || match[1] != planeAddress {
			continue
		}
		n, err := strconv.ParseFloat(match[3], 64)
		if err != nil {
			return nil, err
		}
		counts[match[2]] += int(n)
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("the metrics of upstream's provider count no request to %s", planeAddress)
	}
	return counts, nil
}
